@echo off
REM Shows a snapshot: zkSnapShotToolkit.cmd [-d|-json] FILE

setlocal
call "%~dp0zkEnv.cmd"
if errorlevel 1 exit /b 1
REM The original has one dash before json.
set ARGUMENTS= %*
set ARGUMENTS=%ARGUMENTS: -json= --json%
%ZEBU% snapshot show%ARGUMENTS%
