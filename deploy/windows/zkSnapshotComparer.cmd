@echo off
REM Compares two snapshots: zebu snapshot compare.

setlocal
call "%~dp0zkEnv.cmd"
if errorlevel 1 exit /b 1
%ZEBU% snapshot compare %*
