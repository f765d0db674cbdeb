@echo off
REM Counts what a snapshot has below each path: zebu snapshot summary.

setlocal
call "%~dp0zkEnv.cmd"
if errorlevel 1 exit /b 1
%ZEBU% snapshot summary %*
