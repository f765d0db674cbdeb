@echo off
REM The shell: zkCli.cmd [-server HOST:PORT] ... [COMMAND]

setlocal
call "%~dp0zkEnv.cmd"
if errorlevel 1 exit /b 1
%ZEBU% shell %*
